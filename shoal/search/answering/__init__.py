"""Answers for programs: parts of texts, token budgets, prompts."""
