"""`python -m shoal.cli`, the same as `shoal`."""

from shoal.cli import main

if __name__ == "__main__":
    main()
