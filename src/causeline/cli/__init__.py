"""The `causeline` command: one file a command, over `causeline.assemble`.

Law: a command decides nothing. It reads its line, asks the runtime, and shows what it is told.
"""
