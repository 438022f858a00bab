"""Runs built programs, times them and checks what they compute."""
