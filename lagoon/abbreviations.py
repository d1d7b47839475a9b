"""Words written with a full stop that does not always end a sentence. Lower case, without the stop."""

_TITLES = """
    mr mrs ms dr prof st ste rev hon gen col maj capt cpt lt sgt cpl adm cmdr cdr gov sen rep pres
    messrs mme mlle sra mt pvt supt insp amb atty vs viz cf eg ie e.g i.e ibid approx
"""

_NUMBERED = """
    no nos nr fig figs eq eqs vol vols p pp ch chap sec sect art arts v vv c ca l ll par para pt pts
    bk tab ex cap
"""

_ENDINGS = """
    etc al inc ltd co corp cos bros esq plc llc jr sr fr phd ph.d md ba ma bsc msc dept univ assn ave blvd
    rd sq bldg jan feb mar apr jun jul aug sep sept oct nov dec mon tue tues wed thu thur thurs fri sat
    sun a.m p.m am pm b.c a.d ad bc b.c.e c.e oz lb lbs hr hrs min mins secs km cm mm kg ft yd yds tel
    ext ref refs est max avg misc govt nat natl intl dist mfg mgr asst assoc ed eds trans tr op cit lib
"""

# Never the end of a sentence: a name or a clause follows.
TITLES = frozenset(_TITLES.split())

# Not the end of a sentence when a number follows ("no. 5", "p. 12").
NUMBERED = frozenset(_NUMBERED.split())

# The end of a sentence unless what follows starts in lower case ("etc. and").
ENDINGS = frozenset(_ENDINGS.split())

ABBREVIATIONS = TITLES | NUMBERED | ENDINGS
