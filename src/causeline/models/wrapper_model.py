"""What every wrapper of one model has in common: it goes by that model's name and tool mode, and is closed with it."""

from causeline.models.model import Model, ToolMode, preferred_mode


class WrapperModel:
    """Passes everything but `stream` on to the model it wraps, `inner`."""

    def __init__(self, inner: Model) -> None:
        self.inner = inner

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def prefers(self) -> ToolMode:
        """As the wrapped model."""
        return preferred_mode(self.inner)

    async def aclose(self) -> None:
        await self.inner.aclose()
