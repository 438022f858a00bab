"""The search for fast programs: what proposes, measures, learns and keeps."""
