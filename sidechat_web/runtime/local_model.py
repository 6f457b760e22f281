"""The embedded model (being built)."""

MODEL_ID = "smollm2-135m-instruct"
CONTEXT_WINDOW = 8192


def available() -> bool:
    return False


async def base_url() -> str:
    raise RuntimeError("the embedded model is not installed")
