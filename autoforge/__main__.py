"""`python -m autoforge` is the console script."""

from autoforge.cli import main

if __name__ == "__main__":
    main()
