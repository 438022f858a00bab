"""Makes and checks what a release ships."""
