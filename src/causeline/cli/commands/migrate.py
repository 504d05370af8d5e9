"""`causeline migrate`: bring a store's schema up to date."""

from causeline.cli.opening import exists, leave, opened, own_store, place
from causeline.cli.shared_arguments import DEFAULT_STORE, AsJson, Store
from causeline.cli.views.clean_text import line
from causeline.cli.views.terminal import Terminal


def command(store: Store = DEFAULT_STORE, as_json: AsJson = False) -> None:
    """Bring the schema of a store up to date, and say what was done. A SQLite file that is not there is created.

    Every command does this when it opens a store; this one does nothing else. A store of a later causeline is refused, and left
    as it is.
    """
    own_store(store, "migrate")
    fresh = not exists(store)

    async def migrate() -> None:
        async with opened(store, new=True) as runtime:
            applied = runtime.applied
        if as_json:
            print(line({"store": place(store), "created": fresh, "applied": applied}))
            return
        if fresh:
            Terminal().say(f"created {place(store)}, which was not there")
        for step in applied:
            Terminal().say(f"applied {step}")
        Terminal().say(f"{place(store)} is up to date{'' if applied else ' already'}", "good")

    leave(migrate())
