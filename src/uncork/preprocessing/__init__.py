"""What is done with a picture before a model, as layers: `steps.py` has the steps, which any graph
can take, and `pictures.py` what makes a picture the input of a model.
"""
