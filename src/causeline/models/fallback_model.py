"""Wrapper: when a model does not answer, ask the next one.

Law: the next model gets the original request, never a half reply to continue; what was streamed is taken
back first; a refused request is not sent elsewhere. If nobody answers, the first error is raised, because
it is the cause, and its `facts["attempts"]` lists every try of every model.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from causeline.errors import Misuse, Unavailable
from causeline.models.failures import ModelError
from causeline.models.model import CONTENT, Attempt, Delta, Model, Request, Retracted, ToolMode, preferred_mode
from causeline.models.retry_model import tries_of


class FallbackModel:
    """`models` in order. Goes by the name and the tool mode of the first."""

    def __init__(self, models: Sequence[Model]) -> None:
        if not models:
            raise Misuse("FallbackModel needs at least one model.")
        self._models = tuple(models)

    @property
    def name(self) -> str:
        return self._models[0].name

    @property
    def prefers(self) -> ToolMode:
        return preferred_mode(self._models[0])

    async def aclose(self) -> None:
        for model in self._models:
            await model.aclose()

    async def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        root: ModelError | None = None
        tries: list[object] = []
        for model in self._models:
            streamed = False
            try:
                async with aclosing(model.stream(request)) as deltas:
                    async for delta in deltas:
                        streamed = (streamed or type(delta) in CONTENT) and type(delta) is not Retracted
                        yield delta
                return
            except ModelError as error:
                tries += tries_of(error, model.name)
                root = root or error
                root.facts["attempts"] = tries
                if model is self._models[-1] or not isinstance(error, Unavailable):
                    raise root from (None if root is error else error)
                failed = Attempt(model.name, error.code, error.message)
            if streamed:
                yield Retracted(failed.code)
            yield failed
