"""What Trainyard wants to reach; each is a row of the table. docs/decisions/benchmarks.md says them in words."""

from __future__ import annotations

from benchmarks.table import AT_LEAST, AT_MOST, Goal

LOG_MEDIAN = Goal(AT_MOST, 3)  # microseconds a call of ten metrics
LOG_P99 = Goal(AT_MOST, 20)
INGEST_LARGE_FRAMES = Goal(AT_LEAST, 3_000_000)  # points a second, 1,000 points a series in a frame
INGEST_SMALL_FRAMES = Goal(AT_LEAST, 500_000)  # 20 points a series in a frame
INGEST_ENCRYPTED = Goal(AT_LEAST, 0.95, of="ratio")  # times the speed without encryption, logs and media
INGEST_MEMORY = Goal(AT_MOST, 250)  # MB, whatever the load
WHOLE_WAY = Goal(AT_LEAST, 5, of="ratio")  # times the fastest peer
TRICKLE = Goal(AT_MOST, 25)  # percent of a core, 2,000 series at a point a second each
STORED_LARGE_FRAMES = Goal(AT_MOST, 4)  # bytes a point
STORED_SMALL_FRAMES = Goal(AT_MOST, 6)
STORED_DOUBLES = Goal(AT_MOST, 10)
CHART_SHORT = Goal(AT_MOST, 10)  # milliseconds over a million points, p95
CHART_LONG = Goal(AT_MOST, 40)  # over a hundred million
CHART_MANY = Goal(AT_MOST, 250)  # fifty runs in one request
LIVE_MEDIAN = Goal(AT_MOST, 80)  # milliseconds from log() to the browser
LIVE_P99 = Goal(AT_MOST, 200)
NOTICE_P95 = Goal(AT_MOST, 2)  # seconds from what happens to the receipt by its receiver
SOCKETS_P99 = Goal(AT_MOST, 500)  # milliseconds of a delivery to one of 1,000 sockets
SOCKETS_LOST = Goal(AT_MOST, 0)
TRACE_LOOK = Goal(AT_MOST, 5)  # microseconds of a step of which nobody wants a trace
START = Goal(AT_MOST, 1.0)  # seconds from the request to the end of the first step
WEB_MEMORY = Goal(AT_MOST, 150)  # MiB
PLAN_MEMORY = Goal(AT_LEAST, 11)  # of twelve plans that it has not seen: measured inside of the planner's range
PLAN_STEP = Goal(AT_LEAST, 11)
DATA_WAIT = Goal(AT_MOST, 1)  # percent of a step that a rank waits for its batch
STEP = Goal(AT_MOST, 1.02)  # times a hand-written DDP loop's step, the upper end of the interval
SENT_HALF = Goal(AT_LEAST, 1.95, of="ratio")  # times fewer bytes than DDP
SENT_POWERSGD = Goal(AT_LEAST, 15, of="ratio")
SENT_LOCAL = Goal(AT_LEAST, 9.5, of="ratio")  # one average in ten steps
PHASES = Goal(AT_MOST, 1.01)  # times the processor time of a step that measures nothing
BALANCE = Goal(AT_LEAST, 0.9, of="ratio")  # of the ideal throughput of two ranks, one half as fast
SENT_COUNT = Goal(AT_MOST, 3)  # percent between a strategy's own count and the kernel's
BUBBLE = Goal(AT_LEAST, 1 / 1.2, of="ratio")  # a pipeline waits at most a fifth longer than its formula says
CHECKPOINT_STALL = Goal(AT_MOST, 1)  # percent of the wall time, 10 M parameters at the default interval
REPLICA = Goal(AT_MOST, 1.01)  # times a step without states in memory, at the default interval
SEARCH = Goal(AT_MOST, 200)  # milliseconds until the first hit of a rare word in a million lines, at the server
WINDOW = Goal(AT_MOST, 50)  # …and for 200 lines from anywhere, p95
PAGE_USABLE = Goal(AT_MOST, 1_000)  # milliseconds until 200 series of 100,000 points can be worked with
PAGE_MEMORY = Goal(AT_MOST, 300)  # MB of the page's process
PAGE_LIVE = Goal(AT_MOST, 30)  # percent of a core, 200 points ten times a second
OVERLAY_DRAWN = Goal(AT_MOST, 1_000)  # milliseconds until 50 runs of 100,000 points are in one chart
OVERLAY_FPS = Goal(AT_LEAST, 50)  # frames a second while one pans and zooms in it
PAGE_SEARCH = Goal(AT_MOST, 200)  # milliseconds until the first hit in a million lines is on the page
PAGE_BLANK = Goal(AT_MOST, 100)  # milliseconds without text while one scrolls
LISTS = Goal(AT_MOST, 30)  # milliseconds of processor time of a request for a list, over 100,000 runs
TABLE_ROWS = Goal(AT_MOST, 400)  # milliseconds until the table of runs has its first rows
TABLE_GROUPED = Goal(AT_MOST, 300)  # …and 100,000 runs in groups
TABLE_TYPING = Goal(AT_MOST, 50)  # milliseconds from a letter in its filter until that is drawn
TABLE_FPS = Goal(AT_LEAST, 60)  # frames a second while one scrolls it
TICK = Goal(AT_MOST, 1)  # second of processor time of a tick over 10,000 pending runs
RECOVERY = Goal(AT_LEAST, 5, of="ratio")  # torchrun's own restart takes five times as long
RECOVERY_P95 = Goal(AT_MOST, 1.5)  # seconds from SIGKILL of a rank to the next new step
RECOVERY_STEPS = Goal(AT_MOST, 30)  # steps of hello-gpt, for the same
HANG_NAMED = Goal(AT_MOST, 15)  # seconds until a hang has a name, where the limit is 5 s
GOODPUT_MINUTE = Goal(AT_LEAST, 90)  # percent of the time, with a kill every minute
GOODPUT_TEN_MINUTES = Goal(AT_LEAST, 97)
SWEEP_OVERHEAD = Goal(AT_LEAST, 5, of="ratio")  # a trial's time beside its steps, against Optuna with a process each
SWEEP_SEARCH = Goal(AT_LEAST, 3, of="ratio")  # steps until near the best known, against random search
SWEEP_SUGGESTION = Goal(AT_MOST, 200)  # milliseconds, after 10,000 trials
SWEEP_POPULATION = Goal(AT_LEAST, 1, of="ratio")  # its loss against the best member with a constant rate
SWEEP_PAGE = Goal(AT_MOST, 1_000)  # milliseconds until its first rows and pictures are drawn, 10,000 trials
ADVICE = Goal(AT_LEAST, 8)  # of ten runs with known faults
DOOR_EVENTS = Goal(AT_LEAST, 20, of="ratio")  # a folder of a million points, against TensorBoard's EventAccumulator
DOOR_BATCH = Goal(AT_LEAST, 10, of="ratio")  # 1,000 metrics of MLflow's client, against MLflow's server
DOOR_HISTORY = Goal(AT_LEAST, 5, of="ratio")  # points a second as a frame, against MLflow's
DOOR_SEARCH = Goal(AT_MOST, 100)  # milliseconds of MLflow's search over 100,000 runs
QUEUE_FIRST_COME = Goal(AT_LEAST, 3, of="ratio")  # times the mean completion of fair shares with backfill
QUEUE_EASY = Goal(AT_LEAST, 1.25, of="ratio")
QUEUE_WIDE = Goal(AT_LEAST, 1, of="ratio")  # runs of a node and more wait no longer than under EASY
QUEUE_SECONDS = Goal(AT_MOST, 60)  # of processor time for half the trace
QUEUE_TOLD = Goal(AT_LEAST, 75)  # percent of predicted starts
QUEUE_BAND = Goal(AT_LEAST, 75)  # percent of predicted starts in their band of 80 %
QUEUE_SHORT = Goal(AT_MOST, 2)  # percent of a cluster's slot-time in a week
QUEUE_ELASTIC = Goal(AT_LEAST, 2, of="ratio")  # times the mean wait without elastic jobs
QUEUE_PASS = Goal(AT_MOST, 0.3)  # seconds of processor time
QUEUE_LONG_PASS = Goal(AT_MOST, 2)  # over 100,000 waiting runs
UPGRADE_FAILED = Goal(AT_MOST, 0)  # calls, pages or points
UPGRADE_PAUSE = Goal(AT_MOST, 2)  # seconds of the longest call, or that a socket is away
SCALE_LAG = Goal(AT_MOST, 2)  # seconds, p95, of each step
SCALE_PAGE = Goal(AT_MOST, 1)
SCALE_TICK = Goal(AT_MOST, 1)
SCALE_DELIVERY = Goal(AT_MOST, 1)
