"""SVG charts of stored documents: values in, text out. The SVG has no scripts, styles or external
references."""
