"""What several operations share: rules of shapes, checks of indices and the formulas of their
families.
"""
