"""Access: which key may do what, in which collection, and how often. Nothing here knows HTTP."""
