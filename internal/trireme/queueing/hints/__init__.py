"""Queueing hints: whether an event in the cluster means that a refused pod is tried again.

1. The plugin that refused the pod decides. `plugins/<plugin>/hints.py` registers cluster events, each with a hint: a
   function of the event's old and new object that says which classes of pods it may help. Remote plugins register
   events when they join, and are called for the hint.
2. `queueing_hint_map` collects the registrations of a profile's plugins, and finds those that an event matches.
3. `hint_evaluation` calls their hints for the waiting pods, and says what becomes of each.

Outside this folder, `event_requeuer` applies that to the pods that wait when the event happens, and
`in_flight_event_evaluator` to pods that were being attempted when it happened.
"""
