"""Translates the library's messages for Python. They name the C++ function that refused, and C++
options to change. Python has other names for both."""

import re

# What has members that messages name.
CLASSES = ("Arena", "CallContext", "Call", "Capture", "Context", "DecayingHistogram",
           "DeviceMemory", "Driver", "Emulator", "Event", "Expression", "Fill", "Generator",
           "Graph", "GuardProgram", "HostMemory", "JointHistogram", "JointPolicy",
           "KernelLibrary", "Lease", "LoadProfileOptions", "Loan", "MemoryOptions", "OutputMode",
           "PaddingPolicy", "Pool", "ProgramSpec", "Session", "SessionOptions", "SessionRecorder",
           "Strictness", "SymbolSpec", "TraceOptions", "WarmOptions")
# Functions that stand in front of a message by themselves.
ALONE = ("AddChildToCapture", "AddDynamicAxes", "AliasOutput", "Allocate", "AllocateOutput",
         "AllocationIdOf", "Break", "CheckChild", "CostTable", "ExtendToJoins", "Free",
         "JointCostTable", "JointPolicy", "Launch", "LearnBuckets", "LearnJoint", "Lease",
         "ParseDynamicAxes", "PlanTree", "RangeAllocator", "ReadScope", "Relearn", "SizeHistogram",
         "StepOrder", "ValidateBuffers", "ValidatePlan", "ValidateSpec", "WindowHeap")
MEMBER = rf"\b(?:{'|'.join(CLASSES)})::(\w+)"
WHERE = re.compile(rf"(?:{MEMBER}|(?<![\w.])(?:{'|'.join(ALONE)})|^(?:coppice|COPPICE)_\w+): ")
NAMED = re.compile(rf"{MEMBER}(?:\(\))?")
# Remedies that have another name, or another form, in Python.
REMEDIES = {
    "give it with the program's constants":
        "give it with coppice.load(..., constants={name: tensor}), or the path of a safetensors "
        "file as constants",
    "find a claim with `coppice package claim`, or leave the policy out":
        "find a claim with `coppice package claim` and pass it as coppice.load(..., "
        "claims={name: \"any\"}), or leave the policy out",
    "claim row independence or masking for all symbols":
        "give claim=\"row_independent\" or another claim from coppice.claims for all symbols",
    "set SessionOptions::recorder.ring_bytes, or call Start":
        "make the session with recorder_ring_bytes",
    "set SessionOptions::keep_drawings": "make the session with keep_drawings=True",
    "launch on CallContext::stream()": "launch on coppice.current_stream()",
    "pass the program that Register returns":
        "use the program that register_package or register_callable returns",
    "warm up this bucket before you set strict mode":
        "call warm() for this bucket before you set strict mode",
    "or keep it alive in a chain": "or keep it alive with `with coppice.chain():`",
    "raise the budget of": "raise Session's budget_bytes of",
    "raise the budget": "raise Session's budget_bytes",
    "call Resume first": "call Session.resume() first",
    "add the program to the capture with Include": "run it outside of the capture",
}
SNAKE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def in_python(message):
    """A message of the library without the names of C++ functions, and with Python's remedies."""
    for theirs, ours in REMEDIES.items():
        message = message.replace(theirs, ours)
    message = WHERE.sub("", message)
    return NAMED.sub(lambda found: SNAKE.sub("_", found[1]).lower(), message)
