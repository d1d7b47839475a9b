"""Encoders: neural models that turn a text into a vector. Optional; without one, nothing here is loaded."""
