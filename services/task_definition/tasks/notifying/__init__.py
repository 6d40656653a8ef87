"""The owner of a task is told by mail what became of it.

That is when it ends, breaks, is exhausted or waits for its owner. A notice is written in the transaction of what
happened, once for each cause. One sender takes it, and sends its letter outside any transaction. It is given up after
three tries, after a day, or when its cause is gone. Nothing is written where no mail server is set.

============  =====================================================================================================
`plugin`      what a VO's plugin is asked: the letter about an occasion
`letters`     the letters where a VO has no plugin; `example_vo`: one that tells failures alone
`noting`      notices are written down
`sending`     letters are made and sent by SMTP
============  =====================================================================================================
"""
