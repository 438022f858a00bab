"""Provides `python -m costhub`, the command line where the `costhub` command is not on the path."""

from costhub.cli.main import main

if __name__ == "__main__":
    main()
