"""What is said when something is refused, for tables of what cannot be."""


def said(act, *arguments, **named):
    """The error of a call as Python's last line has it, `ValueError: why`; empty where there is none."""
    try:
        act(*arguments, **named)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""
