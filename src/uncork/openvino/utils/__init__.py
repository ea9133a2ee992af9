"""Helpers of OpenVINO's package that programs import."""
