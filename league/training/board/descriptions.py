"""What each metric means, in a sentence for TensorBoard to show with its curve: unit, and which way is good."""

from __future__ import annotations

import re
from functools import lru_cache

# By pattern of the whole name, of which the first that matches counts.
DESCRIPTIONS: tuple[tuple[str, str], ...] = (
    (
        r".+/mixture_exploitability",
        "What best responses gain per seat against RUN@mixture, the weighted population, in the game's units. 0 is an "
        "equilibrium.",
    ),
    (
        r".+/exploitability(_.+)?",
        "What a best response gains per seat against the newest policies, in the game's units. 0 is a Nash "
        "equilibrium; lower is better.",
    ),
    (r".+/distilled_kl", "KL of the distilled model to the mixture that it imitates, in nats. 0 means equal play."),
    (r".+/distilled_.+", "The same measure for the model that the mixture was distilled into."),
    (
        r".+/equilibrium_distance",
        "The largest difference of a probability from the nearest equilibrium's. 0 is an equilibrium.",
    ),
    (r".+/equilibrium/.+/(low|high)", "The ends of the range that this probability has over all equilibria."),
    (r".+/strategy/.+", "The newest policy's probability of this action at this information state."),
    (r".+/first_seat_value", "The first seat's mean return in exact self-play, in the game's units."),
    (
        r".+/snapshot_regret",
        "How much more the best fixed policies would have won against the main snapshots so far, summed over seats.",
    ),
    (
        r".+/c?ce_gap",
        "What all players together would gain by deviating from the joint distribution. 0 is a (coarse) "
        "correlated equilibrium.",
    ),
    (r".+/best_welfare", "The most that the seats together could have earned in these matches with all knowledge."),
    (r".+/welfare", "The sum of all seats' returns per match of self-play."),
    (
        r".+/pareto_share",
        "The share of matches that could not have ended better for one seat without ending worse for another.",
    ),
    (r".+/return", "The exact return of all seats together; higher is better."),
    (r".+/return/.+", "The mean return per match of this role's trained seats, in the game's units."),
    (r".+/reward/.+", "The mean of this reward per match, before it is weighted."),
    (r".+/held_out_return_of_.+", "The mean return of this scripted player in the same held-out deals."),
    (r".+/held_out_return", "The mean return of the live team in held-out deals."),
    (r".+/score_against_.+", "Points against this scripted player: win 1, draw ½, loss 0."),
    (r".+/score/.+", "The mean score of this role's live policies in training matches: win 1, draw ½, loss 0."),
    (r"[^/]+/score", "The mean score of this exploiter against its victims: win 1, draw ½, loss 0."),
    (r"rating", "TrueSkill of the newest snapshot among all rated ones. The random player has 25."),
    (r"rating_error", "The standard deviation of that rating: ratings closer than twice this may be equal."),
    (r"snapshots", "Snapshots in the population."),
    (r".+/judge/agreement", "How often the judge decides for the truth."),
    (r".+/judge/position_bias", "How much more often the judge decides for the first speaker."),
    (r".+/bits_per_question", "The information that a question was expected to reveal, in bits."),
    (r".+/share/.+", "This action's share of the trained seats' actions."),
    (r".+/submatches", "Submatches that a match opened, on average."),
    (r".+/matches", "Training matches in this iteration."),
    (r"illegal_rate", "The share of trained seats' replies that were illegal. 0 is best."),
    (r".+/replies/.+", "The share of this role's replies that were of this kind."),
    (r".+/opening/.+", "How often this role starts with this action when it has a choice."),
    (r".+/reply_length/.+", "Tokens of this role's replies, on average."),
    (r".+/reasoning_length/.+", "Tokens of this role's replies before the answer, on average."),
    (r".+/advantage/.+/turn_\d+/mean", "The mean advantage of this role's turns at this point of the match."),
    (r".+/advantage/.+/turn_\d+/spread", "The standard deviation of those advantages: 0 teaches nothing."),
    (r".+/advantage/.+/mean", "The mean advantage of this role's turns, in the units of the updates."),
    (
        r".+/advantage/.+/spread",
        "The standard deviation of this role's advantages. Near 0 nothing is learned: its choices make no difference.",
    ),
    (r".+/flat_groups/.+", "The share of groups whose returns are all equal, so that they teach this role nothing."),
    (r".+/left_out/.+/[^/]+", "The share of this role's turns that this rule of selection leaves out of the update."),
    (r".+/left_out/.+", "The share of this role's turns that the rules of selection leave out of the update."),
    (r".+/idle/.+", "The share of the remaining turns without an advantage: they teach nothing either."),
    (
        r".+/entropy/.+/turn_\d+",
        "Entropy of a reply at this turn, in nats, estimated from replies. 0 means always the same reply.",
    ),
    (r".+/entropy(/.+)?", "The policy's entropy in its update, in nats per reply. 0 means always the same reply."),
    (
        r"(.+/)?gap",
        "The mean difference of log-probabilities between sampler and learner, in nats. It should be 0.",
    ),
    (r".+/teacher_kl/.+", "KL of the policy to its teacher at this role's turns, in nats."),
    (
        r".+/language_kl",
        "KL to the untrained model on ordinary prompts, in nats per token: how far its language moved.",
    ),
    (r".+/language_perplexity", "Perplexity of ordinary text, per token; lower is more fluent."),
    (r".+/language_tasks/.+", "The share of small tasks of this kind that the model answers rightly."),
    (r".+/language_logprob", "Log-probability of ordinary text, in nats per token; higher is more fluent."),
    (r".+/kl_.+", "KL of the policy after the update to the one before it, or to its reference, in nats."),
    (r".+/clipped", "The share of ratios at which the update's clipping stopped the gradient."),
    (r".+/critic/.+", "How well the critic predicts returns: its loss, and the share of their variance it explains."),
    (r".+/loss", "The loss of the update. It is computed on different data each time, and need not fall."),
    (r".+/grad_norm", "The norm of the gradient before it is clipped."),
    (r".+/learning_rate", "The step size in this iteration."),
    (
        r"(cluster|learners)/replaced(/.*)?",
        "Processes that died or stopped responding in this iteration, and were replaced.",
    ),
    (r"staleness", "Updates between the weights that played and those that learn from the matches."),
    (r"dropped", "Trajectories that were too old to learn from."),
    (r".+/belief/.+/\d+", "The probability that this role gives to the truth after this many speeches."),
    (r".+/belief/.+", "The probability that this role gives to the truth when a match is over."),
    (r".+/information/\d+", "Bits about the truth that this speech of a match gave each listener."),
    (r".+/information/.+", "Bits about the truth that a speech of this role gave each listener."),
    (r".+/shaping/.+", "The shaping reward of this role per match."),
    (r".+/influence/.+", "How much this role's messages change what others do."),
    (r".+/agreement/.+", "How far this role's thoughts and actions agree, from 0 to 1."),
    (r".+/predictions/.+/right", "The share of this role's stated predictions that came true."),
    (r".+/predictions/.+/base", "What always predicting the most frequent act would be right in."),
    (r".+/unasked", "The share of seats that cannot be asked what they believe."),
    (r".+/starts/solved", "The share of played starts that are nearly always won."),
    (r".+/starts/possible", "The share of played starts that are sometimes won: the frontier."),
    (r".+/starts/out_of_reach", "The share of played starts that are nearly never won."),
    (
        r".+/starts/.+",
        "The pool of starts: how much of it was played, how large the solvable ones are, and who wrote them.",
    ),
    (
        r".+/tasks/.+",
        "Tasks that matches wrote: how many, what share was invalid, and how different they are.",
    ),
    (r"curriculum/percentile_\d+", "This percentile over games of the score, as a share of the best so far."),
    (r"(.+/)?curriculum/.+", "How the games of the curriculum were judged, and how many of them are trained."),
    (r".+/flips/(fixed|broken)", "Matches that the new snapshot wins and the last one lost, or the other way round."),
    (r".+/promoted", "Whether the new snapshot passed the gate: 1 or 0."),
    (r"alarms/.+", "1 in iterations in which this alarm rings; the Text tab says why."),
    (r"time/board_at_end", "The share of the run's time for logging and for waiting for the last figures."),
    (r"time/board", "The share of the run so far that logging has taken. Figures are drawn in a separate process."),
    (r"time/.+", "This phase's share of the iteration's time."),
    (r"memory/accelerator", "The most memory of the accelerator so far, in MiB."),
    (r"memory/.+", "This process's memory after this phase, in MiB."),
    (r"mfu/.+", "Model FLOP utilisation of this phase: the share of the device's measured peak rate."),
    (r"seconds", "Seconds of this iteration."),
    (r"tokens_per_second", "Tokens of prompts and replies that passed through the models per second."),
    (r"reply_tokens", "Tokens of all replies of this iteration."),
    (r".*pass_tokens", "Tokens of the largest pass of an update."),
    (r"programs/.+", "Turns that programs played or forfeited, or that were refused to them."),
)


@lru_cache(maxsize=4096)
def description(name: str) -> str:
    """Return what a metric means; "" for one that is not ours, such as a plugin's."""
    return next((text for pattern, text in DESCRIPTIONS if re.fullmatch(pattern, name)), "")
