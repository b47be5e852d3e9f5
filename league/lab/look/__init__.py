"""``league look``: a page on one run, from a curve to the tokens behind it. It only reads what a run stores.

May import reports and standings of the lab, and the wings below it. ``run_files`` reads; one file per subject answers
(``views`` lists them); ``server`` and ``one_file`` deliver the answers to the page in ``static``.
"""
