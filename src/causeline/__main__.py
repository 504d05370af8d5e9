"""`python -m causeline`: the same as `causeline`."""

from causeline.cli.main import main

if __name__ == "__main__":
    main()
