"""Boards: other machines that measure, over TVM's own RPC tracker and servers."""
