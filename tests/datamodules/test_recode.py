import io

import numpy as np
import pytest
from pictures import encode, noise, png
from PIL import Image

from datamodules.recode import Recode


def opened(data):
    image = Image.open(io.BytesIO(data))
    image.load()
    return image


def test_an_image_that_fits_keeps_its_bytes():
    data = png((64, 32))
    assert Recode(max_side=64, max_pixels=64 * 32, format="png")(data) is data
    assert not Recode().changes
    assert Recode(format="jpg").changes


@pytest.mark.parametrize(
    ("limits", "size"),
    [
        ({"max_side": 100}, (100, 50)),
        ({"max_pixels": 5000}, (100, 50)),
        ({"max_side": 50, "max_pixels": 10**6}, (50, 25)),
        ({"max_side": 1}, (1, 1)),
    ],
)
def test_limits_keep_the_shape(limits, size):
    assert opened(Recode(**limits)(png((400, 200)))).size == size


@pytest.mark.parametrize("format", ["png", "jpg", "webp"])
@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16", "I", "F"])
def test_every_mode_becomes_every_format(mode, format):
    kind = {"CMYK": "JPEG", "F": "TIFF", "I": "TIFF"}.get(mode, "PNG")
    data = encode(Image.new(mode, (20, 10)), kind)
    image = opened(Recode(max_side=10, format=format)(data))
    assert image.format == {"png": "PNG", "jpg": "JPEG", "webp": "WEBP"}[format]
    assert image.size == (10, 5)
    assert image.mode in ("L", "RGB", "RGBA")


def test_transparent_pixels_become_white_in_a_jpeg():
    data = encode(Image.new("RGBA", (8, 8), (255, 0, 0, 0)))
    assert np.asarray(opened(Recode(format="jpg")(data))).min() > 250


def test_sixteen_bits_keep_their_upper_half():
    values = np.full((4, 4), 256 * 128, dtype=np.uint16)
    data = encode(Image.fromarray(values))
    assert abs(int(np.asarray(opened(Recode(max_side=2)(data))).max()) - 128) <= 1


def test_a_turned_photo_is_turned_upright():
    exif = Image.Exif()
    exif[0x0112] = 6
    data = encode(Image.new("RGB", (40, 20)), "JPEG", exif=exif)
    assert opened(Recode(max_side=20)(data)).size == (10, 20)
    assert opened(Recode(format="png")(data)).size == (20, 40)


def test_other_formats_become_png():
    assert opened(Recode(max_side=100)(encode(noise(), "GIF"))).format == "PNG"


def test_animations_and_programs_are_refused():
    frames = [Image.new("L", (8, 8), shade) for shade in (0, 255)]
    film = encode(frames[0], "GIF", save_all=True, append_images=frames[1:])
    with pytest.raises(ValueError, match="the frame that is meant"):
        Recode(format="png")(film)
    with pytest.raises(ValueError, match="can't be decoded"):
        Recode(format="png")(encode(Image.new("RGB", (8, 8)), "EPS"))


def test_what_cannot_be_decoded_is_an_error():
    with pytest.raises(ValueError, match="can't be decoded"):
        Recode(format="png")(png()[:40] + b"x")
    with pytest.raises(ValueError, match="can't be decoded"):
        Recode(max_side=4)(png((64, 64))[:60])
    with pytest.raises(ValueError, match="--max-side is 0"):
        Recode(max_side=0)
    with pytest.raises(ValueError, match="one of png, jpg, webp"):
        Recode(format="gif")
