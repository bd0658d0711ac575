"""The built site in a real browser: quiet, from one host, legible, usable by keyboard."""

import pytest

from tools.book import ROOT

from .conftest import SITE, pages

AXE = ROOT / "tests" / "site" / "vendor" / "axe-core" / "axe.min.js"
PHONE, LAPTOP = 390, 1280


def with_element(text: str) -> list[str]:
    """Pages whose HTML holds the text."""
    return [name for name in pages() if text in (SITE / name).read_text(encoding="utf-8")]


def barriers(page) -> list[str]:
    """What axe-core finds that would keep a reader out."""
    page.add_script_tag(path=AXE)
    return page.evaluate(
        """async () => {
          const options = {runOnly: ["wcag2a", "wcag2aa"], resultTypes: ["violations"]};
          // Sphinx itself gives the bibliography a role that its entries do not match.
          const where = {exclude: [[".citation-list"]]};
          const { violations } = await axe.run(where, options);
          return violations
            .filter(v => ["serious", "critical"].includes(v.impact))
            .map(v => `${v.id}: ${v.nodes.length} x ${v.nodes[0].html.slice(0, 150)}`);
        }"""
    )


def wrong_formulas(page) -> list[str]:
    """Formulas that MathJax did not draw, or drew as an error."""
    page.wait_for_function(
        "() => [...document.querySelectorAll('article .math')]"
        ".every(e => e.querySelector('mjx-container'))"
    )
    return page.locator("mjx-merror").all_inner_texts()


def beyond_the_edge(page) -> list[str]:
    """Elements that make a page scroll sideways."""
    return page.evaluate(
        """() => document.documentElement.scrollWidth <= innerWidth ? [] :
        [...document.querySelectorAll("main *")]
          .filter(e => e.getBoundingClientRect().right > innerWidth + 1)
          .slice(0, 5).map(e => e.outerHTML.slice(0, 120))"""
    )


@pytest.mark.parametrize("width, theme", [(LAPTOP, "light"), (PHONE, "dark")])
def test_page_is_sound(visit, page_name, width, theme):
    one = visit(page_name, width=width, theme=theme)
    assert one.foreign == [], "asks another host"
    assert one.failed == []
    assert wrong_formulas(one.page) == []
    assert one.messages == [], "the console is not empty"
    assert beyond_the_edge(one.page) == []
    assert barriers(one.page) == []


def test_formulas_are_drawn(visit):
    page = visit("book/notation.html").page
    assert wrong_formulas(page) == []
    assert page.locator("article .math mjx-container").count() > 10


def test_search_finds_a_word(visit):
    page = visit("search.html?q=roofline").page
    page.wait_for_selector("#search-results li")
    found = page.locator("#search-results li").all_inner_texts()
    assert any("References" in text for text in found)


def test_search_opens_by_keyboard(visit):
    page = visit("book/preface.html").page
    page.keyboard.press("Control+k")
    page.keyboard.type("notation")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search.html?q=notation*")
    page.wait_for_selector("#search-results li")


BRIGHTNESS = """(selector) => {
  const [r, g, b] = getComputedStyle(document.querySelector(selector))
    .backgroundColor.match(/[\\d.]+/g).map(Number);
  return (0.2126 * r + 0.7152 * g + 0.0722 * b) / 255;
}"""


def test_both_themes_follow_the_system(visit):
    light = visit("book/preface.html", theme="light").page.evaluate(BRIGHTNESS, "body")
    dark = visit("book/preface.html", theme="dark").page.evaluate(BRIGHTNESS, "body")
    assert light > 0.9
    assert dark < 0.15


def test_figures_lie_on_white_in_the_dark(visit):
    names = with_element('cell_output docutils container">\n<figure')
    if not names:
        pytest.skip("no chapter with a figure yet")
    page = visit(names[0], theme="dark").page
    assert page.evaluate(BRIGHTNESS, "div.cell_output img") > 0.99
    filters = page.locator("div.cell_output img").first.evaluate("e => getComputedStyle(e).filter")
    assert filters == "none"


def test_a_solution_opens_by_keyboard(visit):
    names = with_element("<details")
    if not names:
        pytest.skip("no chapter with a folded text yet")
    page = visit(names[0]).page
    summary = page.locator("article details > summary").first
    folded = page.locator("article details").first
    assert folded.get_attribute("open") is None
    summary.focus()
    page.keyboard.press("Enter")
    assert folded.get_attribute("open") is not None


@pytest.mark.parametrize("name", with_element("jupyter.widget-view+json") or [None])
def test_widgets_are_alive(visit, name):
    if name is None:
        pytest.skip("no chapter with a widget yet")
    page = visit(name).page
    views = page.locator('script[type="application/vnd.jupyter.widget-view+json"]').count()
    page.wait_for_function(
        "n => [...document.querySelectorAll('.widget-subarea')]"
        ".filter(e => e.querySelector('*')).length === n",
        arg=views,
    )
