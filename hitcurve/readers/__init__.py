"""Reading engines' /metrics pages: vLLM of both metric generations, SGLang, TensorRT-LLM."""

from hitcurve.readers.page import read_page
from hitcurve.readers.refusal import PageRefused

__all__ = ["PageRefused", "read_page"]
