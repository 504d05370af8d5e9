"""`python -m causeline.cli`: the same as `causeline`."""

from causeline.cli.main import main

main()
