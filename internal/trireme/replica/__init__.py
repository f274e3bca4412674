"""What every service has that is called by the frontend: serving gRPC, fencing, ending with its parent.

Filter, score, bind and the Python plugin SDK stand on it; it knows none of them, and nothing of scheduling.
"""
