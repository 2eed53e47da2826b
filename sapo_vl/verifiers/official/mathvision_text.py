r"""How the MATH-V scorer finds an answer in a response and cleans it; no comparison here.

Every step is a linear scan of the text, so the longest response is cheap.
"""

from __future__ import annotations

from sapo_vl.verifiers.official.plain_float import is_float

_LETTERS = "ABCDE"
_MAX_FRACTION = 400  # characters
_FLAGS = ("final answer is", "answer is", "correct answer is", "answer should be")
_DROPPED_EARLY = (" ", r"\,")
_DROPPED_LATE = (
    "\n",
    r"\text",
    r"\mbox",
    r"\left",
    r"\right",
    r"^{\circ}",
    r"^\circ",
    "{m}^3",
    "m^3",
    "{units}",
    "units",
    "{km}",
    "km",
)
_MARKS = (r"^{\circ}", r"^\circ", r"\$", "$", r"\%")


def find_answer(response: str) -> str:
    """Return the answer as the official script would store it, in lower case."""
    text = _letter_or_number(response.strip())
    boxes = text.count("oxed{")
    if boxes == 0:
        text = _after_flags(text)
    elif boxes > 1:
        text = r"\boxed{" + text.rpartition("oxed{")[2]
    text = _clean(_unboxed(text.lower().replace("{}", "")))
    for left, right in ("()", "{}"):
        for letter in _LETTERS.lower():
            text = text.replace(f"{left}{letter}{right}", letter)
    return text.rstrip(".").lstrip(":").strip()


def _letter_or_number(text: str) -> str:
    for letter in _LETTERS:
        ends = text.endswith((f" {letter}.", f" ({letter})."))
        if ends or text.startswith((f"{letter}\n", f"({letter})\n", f"({letter}) {letter}\n")):
            text = letter
    number = text.rpartition("is ")[2].rstrip(".")
    return number if is_float(number) else text


def _after_flags(text: str) -> str:
    for flag in _FLAGS:
        for article in ("the ", "The "):
            before, found, after = text.rpartition(article + flag)
            text = after.strip() if found else before.strip() or after.strip()
            if found:
                text = text.partition("\n")[0].partition(". ")[0]
    return text


def _unboxed(text: str) -> str:
    start, end = text.find("oxed{"), text.rfind("}")
    if 0 <= start < end - 4:
        text = text[start + 5 : end]
    closing, opening = text.find("}"), text.find("{")
    # Whatever follows a brace that closes the box itself is prose.
    return text[:closing] if closing >= 0 and not 0 <= opening < closing else text


def _clean(text: str) -> str:
    text = text.rpartition("=")[2].rpartition(r"\approx")[2]
    for noise in _DROPPED_EARLY:
        text = text.replace(noise, "")
    text = text.replace("∞", r"\infty").replace(r"+\infty", r"\infty").replace("\\\\", "\\")
    for noise in _DROPPED_LATE[:3]:
        text = text.replace(noise, "")
    text = text.replace("bmatrix", "pmatrix")
    for noise in _DROPPED_LATE[3:]:
        text = text.replace(noise, "")
    return _normalised(text)


def _normalised(text: str) -> str:
    """Apply the string normaliser of the MATH data set in the form the script has of it."""
    text = text.replace(r"\!", "").replace("\\\\", "\\")
    text = text.replace("tfrac", "frac").replace("dfrac", "frac")
    for noise in _MARKS:
        text = text.replace(noise, "")
    text = text.replace("{.", "{0.")
    if text.startswith("."):
        text = "0" + text
    if "sqrt" in text:
        text = _braced_fractions(_braced_roots(text))
    return r"\frac{1}{2}" if text == "0.5" else _slash_fraction(text)


def _braced_roots(text: str) -> str:
    first, *rest = text.split(r"\sqrt")
    for part in rest:
        braced = not part or part.startswith("{")
        first += r"\sqrt" + (part if braced else f"{{{part[0]}}}{part[1:]}")
    return first


def _braced_fractions(text: str) -> str:
    first, *rest = text.split(r"\frac")
    for part in rest:
        if part.startswith("{"):
            first += r"\frac" + part
        elif len(part) < 2:
            return text
        else:
            below = part[1:] if part[1] == "{" else f"{{{part[1]}}}{part[2:]}"
            first += rf"\frac{{{part[0]}}}{below}"
    return first


def _slash_fraction(text: str) -> str:
    above, slash, below = text.partition("/")
    if not slash or len(text) > _MAX_FRACTION:
        return text
    try:
        plain = f"{int(above)}/{int(below)}" == text
    except ValueError:
        return text
    return rf"\frac{{{above}}}{{{below}}}" if plain else text
