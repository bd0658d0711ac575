// What is wider than the screen scrolls in its own frame; the keyboard must reach that frame.
addEventListener("load", async () => {
  await window.MathJax?.startup?.promise;
  for (const frame of document.querySelectorAll("article mjx-container, article div.math")) {
    if (frame.scrollWidth > frame.clientWidth) frame.tabIndex = 0;
  }
});
