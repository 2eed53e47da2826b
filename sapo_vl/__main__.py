"""``python -m sapo_vl`` is ``sapo-vl``."""

from sapo_vl.cli import main

if __name__ == "__main__":
    main()
