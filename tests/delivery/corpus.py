"""Markdown as models write it, and as they should not."""

ANSWER = '''# Reading a log, one line at a time

The reader yields events **as lines arrive**; the only state kept is what a *refusal* needs. See
[the format](https://example.org/a_(b)?c=d&e=f "title") and `decode(line)` for details.

## What changes

1. **Torn tails** are cut at the first byte of the frame, see `repair`.
2. A second item with a [link](http://x.test/y), math $a_1 + b^2$ and ~~struck~~ text.
   - nested *one*
   - nested `two`

     with a paragraph of its own
3. Third, costing $5 and not $10.

> A quote with **strong words**
> over two lines.
>
> - and a list

| column | other | n |
|:-------|:-----:|--:|
| `a`    | **b** | 1 |
| c      | d \\| e | 22 |

```python
def read(lines):
    """Yield events."""
    for line in lines:          # bytes, split on LF only
        if not line.startswith(b"``"):
            yield decode(line)
```

Then the sum:

$$
\\sum_{i=1}^{n} i = \\frac{n(n+1)}{2}
$$

- [ ] one thing to do
- [x] another, done

Setext heading
==============

Some text after. A line
that goes on, a hard break\\
and more.  \nAfter two spaces. &amp; &copy; <https://auto.example/x> https://bare.example/path.

---

***Both at once*** and __under__ and _score_ and snake_case_name and 2 * 3 * 4.

~~~
tilde fence with ``` inside
~~~

    indented code

Last paragraph.'''

CASES = [
    ANSWER,
    "",
    "word",
    "a\n\nb\n\nc",
    "loose\n\n- a\n\n- b\n- c\n\ntext",
    "- a\n- b\n\n  para in b\n\n1. x\n2. y\n\n\n3. z",
    "late [ref] here\n\nand more\n\n[ref]: http://late.example 'T'\n\n[ref] again",
    "[first]: http://one.example\n\nuse [first]\n\n# h\n\n[first]: http://two.example\n\nuse [first]",
    "#### deep first\n\n# top\n\n###### six\n\n## two",
    "para\n- list right after\n- two\n# heading right after\ntext right after\n***\nend",
    "| not a table\n\n| a | b\n\ntext | with | pipes\n--- | --- | ---\n1 | 2 | 3\n\nend",
    "text\n| a | b |\nno dashes\n\ntext\n| a | b |\n|---|---|\n| 1 | 2 |",
    "$$\nx = 1\n\ny = 2\n$$\n\nafter\n\n$$ never closed\n\nand text that goes on",
    "$$x$$ and $y$\n\n$$\na\n$$ (eq1)\n\ncosts $5, then $6.",
    "```\nunclosed\n\n# not a heading\n``\n`",
    "```js\nlet a = `x`;\n```\n```\nb\n```\ntext",
    "````md\n```py\ninner\n```\n````\n\n~~~~ x\n~~~\n~~~~",
    "> quote\nlazy\n\n> another\n\n> - list\n>   more\n\n```\n> x\n```",
    "<script>alert(1)</script>\n\n<b onclick=x>hi</b> [x](javascript:alert(1)) ![i](data:x)\n\n&lt;script&gt;",
    "a\x1b[31mred\x1b[0m b\x1b]0;title\x07c\x1b] d\r\ne\rf\u202eg\ud83d\ude00 \ud83d lone \x00 end",
    "**unclosed strong\n\n*unclosed `code and [link](http://x\n\nnext **a** b** c",
    "* * *\n\n- - -\n\n_ _ _\n\n+ a\n+\n\n+ b\n\n1)\n2) x",
    "Title\n---\n\nTitle 2\n===\n\npara\n---x\n\n- a\n---",
    "[a]\n\n[a]: <b>\n\n![a]\n\n[a][] [b][a] [c](<d e> 'f')",
    "1. one\n\n   ```py\n   x = 1\n   ```\n\n2. two\n\n   | a |\n   |---|\n   | b |\n\nend",
    "line one  \nline two\\\nline three\n\n\n\n\nfar below\n\n\ttabbed code\n\n\n\tmore",
    "emoji 👩‍👩‍👧‍👦 and e\u0301 and مرحبا and 日本語 **太字** です。\n\n- 項目\n- 二",
    "- [ ] a\n- [x] b\n  - [ ] c\n\n[ ] not a task",
    "a_b_c *x*y* **z**w _q_r `` ` `` ``a`b`` \\* \\` \\[ \\$ $",
]
