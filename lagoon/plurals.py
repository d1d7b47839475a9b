"""Regular plurals of words no dictionary has, so that a learned word is known in both numbers."""

# Shorter forms are seldom plurals: "gas", "bus" and initials ("dns", "sos").
_SHORTEST = 4
_SIBILANTS = ("ses", "xes", "zes", "ches", "shes")
_NO_PLURALS = ("ss", "us", "is", "'s")


def singular(form: str) -> str | None:
    """The singular that a normal form would be the regular plural of, None if it cannot be one:
    "hobbits" -> "hobbit", "planaries" -> "planary", "microinches" -> "microinch", "chorus" -> None.

    Only spelling is looked at. "jones" gives "jone": use it where the singular is known to exist.
    """
    if len(form) < _SHORTEST or not form.endswith("s") or form.endswith(_NO_PLURALS):
        return None
    if form.endswith("ies") and len(form) > _SHORTEST + 1:
        return form[:-3] + "y"
    if form.endswith(_SIBILANTS):
        return form[:-2]
    return form[:-1]


def plurals(form: str) -> list[str]:
    """The forms that `singular` leads back to this one."""
    endings = [form + "s", form + "es"] + ([form[:-1] + "ies"] if form.endswith("y") else [])
    return [many for many in endings if singular(many) == form]
