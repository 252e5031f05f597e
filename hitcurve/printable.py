"""Texts of others, such as names from a trace or a page, on a terminal."""

__all__ = ["printable"]


def printable(text: str) -> str:
    """``text`` with everything a terminal would obey or cannot show as its escape: ``\\x1b`` instead of Escape."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
