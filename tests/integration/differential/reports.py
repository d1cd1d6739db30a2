"""The scenarios from public bug reports, each under the letter and number it is known by, with a note of the report.

What the verdict should be is not of this suite; here the agent's view is compared. L, the length of the long part, is
short; the ports are the kernel's to choose.
"""

from harness import Right, Scenario

_PORT = "python3 -c 'import socket; s=socket.socket(); s.bind((\"127.0.0.1\",0)); print(s.getsockname()[1])'"

REPORTS = [
    # openai/codex pull 6575
    Scenario("A1", "$W bash -c 'sleep 30 & echo done' | cat", streams="joined",
             right=Right(0, b"done\n", ("sleep 30",)), racy=True),
    # anomalyco/opencode issue 22012: the child that writes on; what it wrote before the end is not known
    Scenario("A2", "$W bash -c 'for i in $(seq 150); do echo tick; sleep .2; done & sleep .3; echo fg-done' | sed /tick/d",
             streams="joined", right=Right(0, b"fg-done\n", ("bash -c", "sleep .2"))),
    # bazelbuild/bazel issue 220
    Scenario("A4", "$W bash -c 'sleep 30 >/dev/null & echo out' 2>&1 >/dev/null | cat", streams="joined",
             right=Right(0, b"", ("sleep 30",))),
    # actions/runner issue 598
    Scenario("A6", "$W bash -c 'setsid nohup sleep 30 >/dev/null 2>&1 </dev/null & echo started' | cat",
             streams="joined"),
    # kirodotdev/KiroCrew issue 4840
    Scenario("A7", "$W bash -c 'exit 1'; echo rc=$?", streams="joined", racy=True),
    # openclaw/openclaw pull 24613
    Scenario("B1", "$W /no/such/bin 2>/dev/null; echo rc=$?; touch f; $W ./f 2>/dev/null; echo rc=$?"),
    # agentscope-ai/QwenPaw issue 7046
    Scenario("B3", "$W bash -c $'cat <<EOF\\nhello\\nEOF\\necho end'", streams="joined"),
    # meridun/vtk issue 144
    Scenario("B4", "printf 'msg\\n' | $W cat; seq 3 | while read -r n; do $W true; echo $n; done", streams="joined"),
    # anthropics/claude-code issue 79175
    Scenario("C1", "sleep 1 | $W cat", streams="joined"),
    # no controlling terminal
    Scenario("C3", "setsid -w $W python3 -c 'open(\"/dev/tty\")' 2>&1 | tail -1", streams="joined"),
    # NousResearch/hermes-agent pull 112477
    Scenario("C5", "git init -q . && export GIT_EDITOR='sh -c \"read x </dev/tty\"'; timeout 2 script -qec "
             "\"$W git -c user.name=a -c user.email=a@b commit --allow-empty\" /dev/null < <(sleep 3) >/dev/null; echo rc=$?",
             streams="joined"),
    # microsoft/vscode issue 309107
    Scenario("C6", "$W bash -c 'printf \"Proceed [Y/n]: \"; e=$((SECONDS+1)); while ((SECONDS<e)); do :; done; echo ok'",
             streams="joined"),
    # closed stdin
    Scenario("C9", "$W bash -c 'read -r a; echo eof rc=$?' </dev/null; $W bash -c 'read -r a; echo closed rc=$?' <&- "
             "2>/dev/null", streams="joined"),
    # qf-studio/pilot issue 4668
    Scenario("D1", "$W bash -c \"timeout 1 python3 -c 'while 1: pass' 2>&1 | tail -200\"; echo rc=$?", streams="joined"),
    # NousResearch/hermes-agent issue 92281
    Scenario("D3", "unset PYTHONUNBUFFERED; $W python3 -c 'import time\nfor i in range(3): print(i); time.sleep(.4)' | "
             "while IFS= read -r l; do n=${EPOCHREALTIME/[.,]}; : ${t:=$n}; echo $(((n-t)/300000)):$l; done", streams="joined"),
    # a plain long sleep
    Scenario("D5", "$W sleep 1", streams="joined"),
    # a dev server
    Scenario("D8", f"timeout 1 $W python3 -m http.server $({_PORT}) --bind 127.0.0.1 2>/dev/null >&2; echo rc=$?",
             streams="joined"),
    # openclaw/openclaw issue 96168
    Scenario("E1", "timeout 1 $W python3 -c 'import threading as t;l=t.Lock();l.acquire();l.acquire()'; echo rc=$?",
             streams="joined"),
    # a FIFO nobody opens
    Scenario("E3", "mkfifo f; timeout 1 $W cat f; echo rc=$?", streams="joined"),
    # daintreehq/daintree issue 3189
    Scenario("E5", "timeout 5 $W bash -c 'while :; do for c in - \"\\\\\" \"|\" /; do printf \"\\r%s\" \"$c\"; sleep .2; "
             "done; done' | head -c 6 | wc -c", streams="joined"),
    # stopped
    Scenario("E8", "timeout 1 $W bash -c 'kill -STOP $$; echo resumed'; echo rc=$?", streams="joined"),
    # strands-labs/robots issue 2239
    Scenario("E10", "timeout 3 $W python3 -c 'import threading,time\n"
             "threading.Thread(target=time.sleep,args=(9,)).start(); print(\"1 passed\",flush=True)'; echo rc=$?",
             streams="joined"),
    # connect to a full backlog
    Scenario("E12", f"p=$({_PORT}); python3 -c \"import socket,time\ns=socket.socket(); s.bind(('127.0.0.1',$p)); "
             "s.listen(0); time.sleep(3)\" & sleep .5; timeout 1 $W python3 -c \"import socket\nk=[]\nfor i in range(9): "
             "k.append(socket.create_connection(('127.0.0.1',$p))); print(i,flush=True)\"; echo rc=$?", streams="joined",
             edit=lambda data: data[-7:]),
    # process tree on TERM: bare leaves the sleep behind
    Scenario("F1", "$W bash -c 'sleep 60 & echo >$F/up; wait' & p=$!; until [ -e $F/up ]; do sleep .02; done; kill -TERM $p; "
             "wait $p; echo rc=$?", streams="joined", right=Right(0, b"rc=143\n")),
    # multica-ai/multica issue 7615
    Scenario("F3", "$W bash -c 'setsid sleep 60 & sleep .1; echo >$F/up; wait' & p=$!; until [ -e $F/up ]; do sleep .02; "
             "done; kill -TERM $p; wait $p; echo rc=$?", streams="joined", right=Right(0, b"rc=143\n")),
    # signal forwarding
    Scenario("F5", "for s in USR1 USR2 HUP TERM; do rm -f $F/up; $W bash -c \"trap 'echo got-$s' $s; echo >$F/up; "
             "for i in 1 2 3; do sleep .15; done; exit 5\" & p=$!; until [ -e $F/up ]; do sleep .02; done; kill -$s $p; "
             "wait $p; echo rc=$?; done", streams="joined", racy=True,
             # Sent to the pid; bash waits for its sleep, and SIGTERM goes to the whole tree when we stop it.
             edit=lambda data: b"\n".join(line for line in data.split(b"\n") if b"Terminated" not in line)),
    # cleanup trap
    Scenario("F7", "$W bash -c 'sleep 30 & s=$!; trap \"sleep .2; echo cleaned; kill $s 2>/dev/null; exit 7\" TERM; "
             "echo >$F/up; wait' & p=$!; until [ -e $F/up ]; do sleep .02; done; kill -TERM $p; wait $p; echo rc=$?",
             streams="joined", racy=True),
    # openai/codex issue 24556
    Scenario("G1", "for s in TERM KILL INT SEGV PIPE; do $W bash -c \"ulimit -c 0; kill -$s \\$\\$\" 2>/dev/null; "
             "echo $s=$?; done 2>/dev/null", streams="joined", racy=True),
    # sipyourdrink-ltd/bernstein pull 1398
    Scenario("G4", "python3 -c 'import os,subprocess;print(subprocess.run(os.environ[\"W\"].split()+[\"bash\",\"-c\","
             "\"kill -TERM $$\"]).returncode)'", streams="joined", racy=True),
    # terminal size
    Scenario("H1", "script -qec \"stty cols 203 rows 47; $W stty size\" /dev/null </dev/null", streams="joined"),
    # double Ctrl-C
    Scenario("H4", "(until [ -e $F/up ]; do sleep .02; done; printf '\\003'; sleep 1) | script -qec "
             "\"$W bash -c 'trap \\\"echo INT\\\" INT; : >$F/up; sleep 1; "
             "sleep .4; echo end'\" /dev/null | tr -d '\\r' | grep -c '^\\(\\^C\\)\\?INT$'", streams="joined", racy=True),
    # partial multibyte output
    Scenario("I1", "$W python3 -c 'import os,time\nfor b in (b\"\\xe2\",b\"\\x89\",b\"\\xa4\\n\"): os.write(1,b); "
             "time.sleep(.05)' | od -An -tx1", streams="joined"),
    # CR progress: one frame at a time, as written
    Scenario("I3", "$W bash -c 'for i in 1 2 3; do printf \"\\r%d%%\" $i; sleep .5; done' | python3 -c 'import os\n"
             "while b:=os.read(0,99): print(b)'", streams="joined"),
    # order of joined streams
    Scenario("I5", "for k in $(seq 5); do $W bash -c 'for i in 1 2 3; do echo o$i; echo e$i >&2; done' 2>&1 | "
             "paste -sd' '; done | sort | uniq -c", streams="joined", racy=True),
    # MoonshotAI/kimi-code pull 1285
    Scenario("I7", "$W bash -c 'yes | head -c 500000000' | wc -c", streams="joined", slack_s=15.0),
    # reader leaves
    Scenario("I9", "$W yes | head -1; echo \"${PIPESTATUS[@]}\"", streams="joined", racy=True),
    # apmantza/pi-lens issue 3141
    Scenario("I11", "( $W bash -c 'sleep .2; while echo x; do sleep .1; done; exit 7'; echo rc=$? >&2 ) | true", streams="joined",
             edit=lambda data: b"\n".join(line for line in data.split(b"\n") if b"Broken pipe" not in line)),
    # QwenLM/qwen-code pull 6876: ends around the heartbeat's interval
    Scenario("J1", "export SIDECAR_HEARTBEAT_INTERVAL=200ms; for d in .18 .19 .20 .21 .22; do $W sleep $d || echo $?; done; "
             "echo end", streams="joined", racy=True),
    # elastic/beats issue 18118
    Scenario("J3", "export SIDECAR_SOCKET=$F/$(printf 'd%.0s' {1..120})/s; $W echo ok", streams="joined"),
    # open-telemetry/opentelemetry-python issues 3309, 4043
    Scenario("K1", "for e in http://127.0.0.1:9 http://192.0.2.1:4318; do OTEL_EXPORTER_OTLP_ENDPOINT=$e $W echo ok; done",
             streams="joined"),
    # anthropics/claude-code issue 45644
    Scenario("K3", "diff <(env | grep -v ^_= | sort) <($W env | grep -v -e ^_= -e ^TRACE -e ^SIDECAR_ | sort) | "
             "grep -v SIDECAR_ | grep '^[<>]'; echo same-env", streams="joined"),
    # inherited descriptors
    Scenario("L1", "$W ls /proc/self/fd | paste -sd' '", streams="joined"),
    # inherited state
    Scenario("L3", "(umask 027; cd /tmp; ulimit -n 99; trap '' HUP; $W sh -c 'umask; pwd; ulimit -n; grep SigIgn "
             "/proc/self/status; cat /proc/self/oom_score_adj; nice')", streams="joined"),
]  # fmt: skip
