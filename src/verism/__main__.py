"""``python -m verism``: the command line, where its program is not on the path."""

from verism.cli.main import main

if __name__ == "__main__":
    main()
