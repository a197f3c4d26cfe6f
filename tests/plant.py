"""Mistakes that are planted in the package to see whether a test notices."""


def plant(patch, owner, names, mistaken):
    """Replace methods of `owner`; `mistaken` gets the method that was there, and then whatever that would get."""
    for name in names.split():
        method = getattr(owner, name)
        patch.setattr(owner, name, lambda *args, method=method, **options: mistaken(method, *args, **options))
