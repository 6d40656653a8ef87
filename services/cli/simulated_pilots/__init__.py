"""Simulated pilots: programs that act for queues as real pilots do, over HTTP only.

* `profile`: how payloads behave (walltime, memory, outputs) and how often what goes wrong, by one seed;
* `payload`: what one job will do, drawn from the seed and the job's id: the same job behaves the same in any order;
* `behaviour`: one pilot as a state machine without input and output: it says what to send next and is told the reply;
* `report`: the final report, with the fields and oddities of real pilots;
* `allocation`: to which queue the next pilot goes, as a pilot factory decides;
* `connection` and `fleet`: the program around them.

Times inside are seconds of the simulated world; the fleet divides them by the speed-up.
"""
