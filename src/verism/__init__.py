"""verism"""
