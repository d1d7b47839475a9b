"""Pictures of what is stored, as SVG: values in, text out. No scripts, no styles, nothing from elsewhere."""
