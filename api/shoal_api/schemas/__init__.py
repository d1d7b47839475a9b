"""What may be sent and what is answered. The API document is made from these."""
