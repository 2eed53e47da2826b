# Sourced by quickstart.sh and test.sh: sets PYTHON to an interpreter that has what the extras in EXTRAS need.
# SAPO_VL_PYTHON names one to use; otherwise .venv is made with the first Python >= 3.11 found. Whatever is
# missing from it is installed.

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

missing=0
"$PYTHON" scripts/requirements.py "$EXTRAS" || missing=$?
[ "$missing" != 2 ] || exit 2
if [ "$missing" != 0 ]; then
  echo "installing sapo_vl[$EXTRAS] (several GB with PyTorch; once)"
  "$PYTHON" -m pip install --disable-pip-version-check -e ".[$EXTRAS]"
fi

export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH}  # this checkout, whatever else is installed
export HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false
