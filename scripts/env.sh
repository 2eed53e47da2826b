# Sourced by quickstart.sh and test.sh: sets PYTHON, with sapo_vl and the extras named in EXTRAS installed.
# SAPO_VL_PYTHON names an interpreter to use; otherwise .venv is made with the first Python >= 3.11 found.

cd "$(dirname "${BASH_SOURCE[0]}")/.."

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

if [ -n "${SAPO_VL_PYTHON:-}" ]; then
  PYTHON=$SAPO_VL_PYTHON
  new_enough "$PYTHON" || { echo "SAPO_VL_PYTHON=$PYTHON is no Python >= 3.11" >&2; exit 1; }
else
  PYTHON=$PWD/.venv/bin/python
  if [ ! -x "$PYTHON" ]; then
    for candidate in python3 python3.14 python3.13 python3.12 python3.11 python; do
      new_enough "$candidate" && break
      candidate=
    done
    [ -n "$candidate" ] || { echo "no Python >= 3.11 found; name one in SAPO_VL_PYTHON" >&2; exit 1; }
    echo "making .venv with $("$candidate" --version)"
    "$candidate" -m venv .venv
  fi
fi

# Installed once for each state of pyproject.toml and set of extras.
STAMP=$("$PYTHON" - "$EXTRAS" <<'PY'
import hashlib, pathlib, sys, sysconfig
digest = hashlib.sha256(pathlib.Path("pyproject.toml").read_bytes() + sys.argv[1].encode())
digest.update(str(pathlib.Path.cwd()).encode())
print(pathlib.Path(sysconfig.get_path("purelib")) / f"sapo_vl-{digest.hexdigest()[:16]}.installed")
PY
)
if [ ! -e "$STAMP" ]; then
  echo "installing sapo_vl[$EXTRAS] (several GB with PyTorch; once)"
  "$PYTHON" -m pip install --disable-pip-version-check -e ".[$EXTRAS]"
  touch "$STAMP"
fi

export DS_ACCELERATOR=${DS_ACCELERATOR:-}
[ -n "$DS_ACCELERATOR" ] || unset DS_ACCELERATOR  # an empty value is an error to DeepSpeed
