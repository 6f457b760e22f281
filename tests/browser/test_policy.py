"""Pages beside the conversation work under the content security policy: nothing is refused, nothing asks elsewhere."""

import pytest
from playwright.sync_api import expect


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/account/", "API tokens"),
        ("/admin/", "Administration"),
        ("/admin/storage/session/", "Select session"),
        ("/admin/auth/user/", "Select user"),
        ("/admin/accounts/auditentry/", "Select audit entry"),
        ("/api/docs", "Sidechat"),
        ("/accounts/login/", "Sign in"),
    ],
)
def test_page_works_under_the_policy(open_page, talk, path, shown):
    talk("hello")
    page = open_page(path)
    expect(page.get_by_text(shown).first).to_be_visible()


def test_policy_is_in_force(open_page, talk, witness):
    witness.allowed |= {"Content Security Policy", "127.0.0.1:9/out"}
    page = open_page(f"/s/{talk('hello')}/")
    page.evaluate(
        """() => {
          const script = Object.assign(document.createElement("script"), {textContent: "window.injected = 1"});
          document.body.append(script);
          const styled = "<p id=styled style='color: red' onclick='window.injected = 1'>x</p>";
          document.body.insertAdjacentHTML("beforeend", styled);
          document.getElementById("styled").click();
          const image = new Image();
          image.src = "http://127.0.0.1:9/out";
          image.onerror = () => { document.title = "blocked"; };
        }"""
    )
    expect(page).to_have_title("blocked")
    assert page.evaluate("window.injected") is None
    assert page.evaluate("getComputedStyle(document.getElementById('styled')).color") != "rgb(255, 0, 0)"


def test_token_is_made_and_revoked_by_hand(open_page):
    page = open_page("/account/")
    page.get_by_label("Name").fill("my laptop")
    page.get_by_role("button", name="Make a token").click()
    shown = page.locator(".once code")
    expect(shown).to_contain_text("sc_")
    page.goto("/account/")
    expect(page.get_by_text("my laptop")).to_be_visible()
    expect(page.locator(".once")).to_have_count(0)
    page.get_by_role("button", name="Revoke my laptop").click()
    expect(page.get_by_text("The token is revoked.")).to_be_visible()
    expect(page.get_by_text("my laptop")).to_have_count(0)
