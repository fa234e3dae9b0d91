"""``python -m overlapscope``."""

from overlapscope.cli.main import main

if __name__ == "__main__":
    main()
