"""What every surface offers, declared once: arguments with their kinds, limits, defaults and descriptions."""
