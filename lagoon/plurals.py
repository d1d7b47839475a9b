"""Regular plurals by spelling, so that a learned word is recognized in singular and plural."""

# Shorter forms are seldom plurals: "gas", "bus" and initials ("dns", "sos").
_SHORTEST = 4
_SIBILANTS = ("ses", "xes", "zes", "ches", "shes")
_NO_PLURALS = ("ss", "us", "is", "'s")


def singular(form: str) -> str | None:
    """Singular of a normal form that is spelled like a regular plural, else None:
    "hobbits" -> "hobbit", "planaries" -> "planary", "microinches" -> "microinch", "chorus" -> None.

    Looks only at the spelling: "jones" gives "jone". Callers check that the singular exists.
    """
    if len(form) < _SHORTEST or not form.endswith("s") or form.endswith(_NO_PLURALS):
        return None
    if form.endswith("ies") and len(form) > _SHORTEST + 1:
        return form[:-3] + "y"
    if form.endswith(_SIBILANTS):
        return form[:-2]
    return form[:-1]


def plurals(form: str) -> list[str]:
    """Forms whose `singular` is this form."""
    endings = [form + "s", form + "es"] + ([form[:-1] + "ies"] if form.endswith("y") else [])
    return [plural for plural in endings if singular(plural) == form]
