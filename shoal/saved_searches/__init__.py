"""Saved searches: evaluated for what jobs bring, with webhooks that report the matches."""
