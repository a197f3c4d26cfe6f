"""What chapter 13 prints of the agents' traffic is what `minikv plan` finds."""

import json

from chapters import printed

from minikv import asset
from minikv.cli import main


def test_the_chapter_prints_what_a_plan_finds(capsys):
    agents = str(asset("traffic/agents.jsonl.gz"))
    main(["plan", agents, "--span", "1", "--ttl", "60,300,3600", "--json"])
    plan = json.loads(capsys.readouterr().out)
    for lost in plan["time_to_live"]:
        share = 1 - lost["hits"] / plan["ceiling"]["hits"]
        line = f"forgotten after {lost['seconds']:5,.0f} s: {share:6.1%} of all hits lost"
        assert line in printed(13, "forgotten after")
    assert f"of {plan['ceiling']['hits']:,} blocks" in printed(13, 'fold("13.h"')
