"""Labels of simulated agents."""

from __future__ import annotations

from minicluster.mesos.common.resource_notation import parse_attributes
from minicluster.mesos.master.core.simulated_agents import SimulationConfig, registrations


def test_several_values_of_an_attribute_are_taken_in_turn_and_an_empty_one_is_none() -> None:
    attributes = tuple(parse_attributes("zone:a;rack:r1|r2;exclusive:gold||"))
    agents = registrations(SimulationConfig(4, {}, attributes), "127.0.0.1", 5050)
    assert [{each.name: each.text.value for each in agent.info.attributes} for agent in agents] == [
        {"zone": "a", "rack": "r1", "exclusive": "gold"},
        {"zone": "a", "rack": "r2"},
        {"zone": "a", "rack": "r1"},
        {"zone": "a", "rack": "r2", "exclusive": "gold"},
    ]
