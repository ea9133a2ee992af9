"""GRU, LSTM and RNN sequences."""
