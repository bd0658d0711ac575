"""A walk over the files of the built site: links, anchors, images, and nothing from elsewhere."""

import re
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import pytest

LOADING_LINKS = {"stylesheet", "icon", "preload", "preconnect", "dns-prefetch", "manifest"}


class Page(HTMLParser):
    """What one page links to, loads, and can be linked at."""

    def __init__(self, path):
        super().__init__()
        self.links, self.loads, self.anchors, self.images, self.styles = [], [], set(), [], []
        self.inside_style = False
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        """Note a link, a resource or an anchor."""
        found = dict(attributes)
        self.anchors |= {found[key] for key in ("id", "name") if found.get(key)}
        self.inside_style = tag == "style"
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        if tag == "link" and set((found.get("rel") or "").split()) & LOADING_LINKS:
            self.loads.append(found["href"])
        if tag in ("script", "img", "iframe", "source", "video", "audio") and found.get("src"):
            self.loads.append(found["src"])
        if tag == "img":
            self.images.append(found)
        if found.get("style"):
            self.styles.append(found["style"])

    def handle_data(self, data):
        """Keep the text of styles."""
        if self.inside_style:
            self.styles.append(data)


@pytest.fixture(scope="session")
def parsed(site):
    """All pages of the site."""
    paths = [path for path in site.rglob("*.html") if "_static" not in path.parts]
    return {path: Page(path) for path in paths}


def is_external(target):
    """Whether an address leads to another host."""
    return bool(urlsplit(target).netloc)


def resolve(path, target, site):
    """File that an internal address leads to."""
    name = unquote(urlsplit(target).path)
    found = (path.parent / name).resolve() if name else path
    assert found.is_relative_to(site.resolve()), f"{path.name}: {target} leaves the site"
    return found / "index.html" if found.is_dir() else found


def test_every_internal_link_and_anchor_leads_somewhere(site, parsed):
    faults = []
    by_file = {path.resolve(): page for path, page in parsed.items()}
    for path, page in parsed.items():
        for target in page.links:
            if is_external(target) or target.startswith(("mailto:", "javascript:")):
                continue
            found = resolve(path, target, site)
            anchor = unquote(urlsplit(target).fragment)
            if not found.exists():
                faults.append(f"{path.relative_to(site)}: {target}: no such file")
            elif anchor and found in by_file and anchor not in by_file[found].anchors:
                faults.append(f"{path.relative_to(site)}: {target}: no such anchor")
    assert not faults, "\n".join(faults)


def test_every_resource_is_there_and_from_this_site(site, parsed):
    faults = []
    for path, page in parsed.items():
        for target in page.loads:
            if target.startswith("data:"):
                continue
            if is_external(target):
                faults.append(f"{path.relative_to(site)}: loads {target}")
            elif not resolve(path, target, site).exists():
                faults.append(f"{path.relative_to(site)}: {target}: no such file")
        for style in page.styles:
            faults += [f"{path.name}: style loads {url}" for url in foreign_urls(style)]
    assert not faults, "\n".join(faults)


def foreign_urls(style):
    """Addresses on other hosts that a style sheet would load."""
    addresses = re.findall(r"url\(\s*['\"]?([^'\")]+)", style)
    addresses += re.findall(r"@import\s+['\"]([^'\"]+)", style)
    return [address for address in addresses if is_external(address)]


def test_no_style_sheet_loads_from_elsewhere(site):
    faults = [
        f"{path.name}: {url}"
        for path in site.rglob("*.css")
        for url in foreign_urls(path.read_text(encoding="utf-8", errors="replace"))
    ]
    assert not faults


def test_every_image_says_what_it_shows(site, parsed):
    faults = []
    for path, page in parsed.items():
        for image in page.images:
            alt = image.get("alt", "")
            if len(alt) < 20 or re.search(r"\.(png|svg|jpe?g)$", alt):
                faults.append(f"{path.relative_to(site)}: {image.get('src')}: alt text {alt!r}")
    assert not faults, "\n".join(faults)


def test_every_page_can_be_reached_from_the_first(site, parsed):
    by_file = {path.resolve(): page for path, page in parsed.items()}
    first = (site / "book" / "preface.html").resolve()
    reached, waiting = {first}, [first]
    while waiting:
        path = waiting.pop()
        for target in by_file[path].links:
            if is_external(target) or target.startswith(("mailto:", "javascript:")):
                continue
            found = resolve(path, target, site)
            if found in by_file and found not in reached:
                reached.add(found)
                waiting.append(found)
    ours = {p for p in by_file if p.parent.name in ("book", "notebooks")}
    assert ours - reached == set()


def test_every_chapter_is_in_the_site(site):
    from tools.book import notebook_paths

    missing = [
        path.stem
        for path in notebook_paths()
        if not (site / "notebooks" / f"{path.stem}.html").exists()
    ]
    assert not missing, "add them to _toc.yml"


def test_the_first_address_leads_to_the_preface(site):
    assert "book/preface.html" in (site / "index.html").read_text(encoding="utf-8")
